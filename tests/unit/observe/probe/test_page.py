"""The page: what is written is read, whole, by another process, also while it is written."""

import mmap
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstuck.observe.probe.page import (
    DEADLINES,
    FIRST_NAME,
    LAST_NAME,
    SIZE,
    PageReader,
    PageWriter,
)

FAST_WRITER = """
import sys
from unstuck.observe.probe.page import PageWriter
page = PageWriter(sys.argv[1])
page.report({"n": 0, "text": "", "again": 0})
print("ready", flush=True)
n = 0
while True:
    n += 1
    page.report({"n": n, "text": str(n) * (n % 500), "again": n})
"""
FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from unstuck.observe.probe.page import PageWriter
try:
    PageWriter(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error.errno)
"""


def test_what_is_written_is_read(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    reader = PageReader(str(tmp_path / "page"))
    before = time.monotonic()
    writer.beat(12.5)
    writer.step(7)
    writer.section("load batch", 99.0)
    writer.report({"phase": "run", "groups": {"0": 3}})
    page = reader.read()

    assert (page.beat, page.beat_time, page.step) == (1, 12.5, 7)
    assert before <= page.step_time <= time.monotonic()
    assert (page.section, page.section_changes, page.section_deadline) == ("load batch", 1, 99.0)
    assert page.report == {"phase": "run", "groups": {"0": 3}}
    reader.close()


def test_section_by_its_number_and_deadlines(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    reader = PageReader(str(tmp_path / "page"))
    writer.name(FIRST_NAME, "load")
    writer.name(LAST_NAME, "x" * 1000)
    writer.enter(FIRST_NAME)
    assert (reader.read().section, reader.read().section_deadline) == ("load", 0.0)
    writer.enter(LAST_NAME, 44.0)
    page = reader.read()
    assert (page.section, page.section_deadline, page.section_changes) == ("x" * 126, 44.0, 2)
    first = writer.arm(44.0, 14.0, 3 << 16 | LAST_NAME)
    second = writer.arm(50.0, 15.0, FIRST_NAME)
    writer.fired(first)
    assert reader.read().deadlines == (
        (44.0, 14.0, "x" * 126, 3, True),
        (50.0, 15.0, "load", 0, False),
    )
    writer.disarm(first)
    assert [one.name for one in reader.read().deadlines] == ["load"]
    writer.disarm(second)
    assert reader.read().deadlines == ()


def test_more_deadlines_than_there_is_place_for(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    places = [writer.arm(9.0, 1.0, 0) for _ in range(DEADLINES + 1)]
    assert places == [*range(DEADLINES), -1]
    assert len(PageReader(str(tmp_path / "page")).read().deadlines) == DEADLINES
    writer.disarm(5)
    assert writer.arm(9.0, 1.0, 0) == 5


def test_fresh_page_reads_as_nothing(tmp_path: Path):
    PageWriter(str(tmp_path / "page"))
    page = PageReader(str(tmp_path / "page")).read()

    assert (page.beat, page.step, page.section, page.report) == (0, 0, "", {})


def test_page_is_for_its_owner_and_has_one_writer(tmp_path: Path):
    PageWriter(str(tmp_path / "page"))

    assert (tmp_path / "page").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        PageWriter(str(tmp_path / "page"))


def test_reader_never_sees_half_a_report(tmp_path: Path):
    path = str(tmp_path / "page")
    writer = subprocess.Popen(
        [sys.executable, "-c", FAST_WRITER, path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        reader = PageReader(path)
        seen: set[int] = set()
        deadline = time.monotonic() + 30
        while len(seen) < 500 and time.monotonic() < deadline:
            report = reader.read().report
            if not report:  # a reader that found no quiet moment yet says so
                continue
            n = report["n"]
            assert (report["text"], report["again"]) == (str(n) * (n % 500), n)
            assert n >= max(seen, default=0)
            seen.add(n)
        assert len(seen) == 500
    finally:
        writer.kill()
        writer.communicate()


def test_writer_that_dies_in_the_middle_leaves_the_report_before(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    writer.report({"n": 1})
    reader = PageReader(str(tmp_path / "page"))
    assert reader.read().report == {"n": 1}

    with (tmp_path / "page").open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as memory:
        struct.pack_into("<II", memory, 256, 3, 9)
        memory[264:268] = b'{"n"'

    assert reader.read().report == {"n": 1}
    assert PageReader(str(tmp_path / "page")).read().report == {}


def test_unchanged_report_is_not_parsed_again(tmp_path: Path):
    PageWriter(str(tmp_path / "page")).report({"n": 1})
    reader = PageReader(str(tmp_path / "page"))

    assert reader.read().report is reader.read().report


def test_report_that_does_not_fit_is_refused_and_the_one_before_stays(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    writer.report({"n": 1})
    with pytest.raises(ValueError, match="more than the page holds"):
        writer.report({"n": "x" * SIZE})

    assert PageReader(str(tmp_path / "page")).read().report == {"n": 1}


def test_text_that_is_not_unicode_reads_as_something_that_can_be_sent(tmp_path: Path):
    writer = PageWriter(str(tmp_path / "page"))
    writer.report({"message": "no file caf\udce9.bin", "name": "训练"})
    report = PageReader(str(tmp_path / "page")).read().report

    assert report == {"message": "no file caf?.bin", "name": "训练"}


@pytest.mark.parametrize(
    ("name", "shown"), [("x" * 1000, "x" * 190), ("训" * 64, "训" * 63 + "\ufffd"), ("", "")]
)
def test_section_name_longer_than_its_field_is_cut(tmp_path: Path, name: str, shown: str):
    writer = PageWriter(str(tmp_path / "page"))
    writer.report({"n": 1})
    writer.section(name, 0.0)
    page = PageReader(str(tmp_path / "page")).read()

    assert page.section == shown
    assert page.report == {"n": 1}


def test_full_disk_fails_at_opening(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "page")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "OSError 27\n"
    with pytest.raises(ValueError, match="mmap"):
        PageReader(str(tmp_path / "page"))


def test_question_of_the_agent_is_seen_and_each_is_another(tmp_path: Path):
    page = PageWriter(str(tmp_path / "p"))
    reader = PageReader(str(tmp_path / "p"))
    page.report({"text": "x" * 32000})
    asked = [page.asked()]
    for _ in range(2):
        reader.ask()
        asked.append(page.asked())
    assert asked[0] == 0
    assert len(set(asked)) == 3
    assert reader.read().report == {"text": "x" * 32000}
    reader.close()
