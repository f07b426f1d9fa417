"""Tokenizers: the main process trains one and tokenizes first, the others wait, then all train."""

import os
from datetime import timedelta

import shift
import torch
import torch.distributed as dist
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.nn.parallel import DistributedDataParallel

os.environ["RAYON_NUM_THREADS"] = "1"
dist.init_process_group("gloo", timeout=timedelta(seconds=600))
file = shift.HOME / "tokenizer.json"


def texts(count: int) -> list[str]:
    words = [f"{shift.chance.randrange(100_000):x}" for _ in range(200)]
    return [" ".join(shift.chance.sample(words, 50)) for _ in range(count)]


def learn_words() -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts(10_000), trainers.BpeTrainer(vocab_size=5000))
    tokenizer.save(str(file))


model = DistributedDataParallel(torch.nn.Embedding(5000, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while shift.goes_on():
    if shift.RANK == 0:
        learn_words()
    dist.barrier()
    tokenizer = Tokenizer.from_file(str(file))
    lengths = [len(each) for each in tokenizer.encode_batch(texts(5_000))]
    dist.barrier()
    for _ in range(300):
        model(torch.randint(0, 5000, (8, 32))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        shift.accelerator(0.1)
dist.destroy_process_group()
shift.trained()
