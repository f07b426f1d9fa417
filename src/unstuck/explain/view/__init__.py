"""What a person sees of a job: plain typed values, made by pure functions, without any layout.

The live page, the incident report, the terminal and other programs all show these.

    view_job(snapshot, verdict)          the whole job: ranks by host, groups, who is slow
    view_rank(snapshot, rank, verdict)   one rank, beside a healthy one
    merge_stacks(snapshot)               the stacks of all ranks as one prefix tree
    picture(snapshot, verdict)           who waits for whom, as boxes and arrows
"""
