"""Transformers: its Trainer with a tiny model, evaluations, checkpoints and loader workers."""

from typing import Any

import shift
import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class Texts(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = torch.randint(0, 200, (32,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": words, "labels": words}


class Shift(TrainerCallback):
    """Ends the training when its time is over."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        shift.accelerator(0.1)
        if state.global_step % 20 == 0 and not shift.goes_on():
            control.should_training_stop = True


model = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=32, n_embd=32, n_layer=2, n_head=2))
arguments = TrainingArguments(
    output_dir=str(shift.HOME),
    use_cpu=True,
    max_steps=100_000,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    dataloader_num_workers=1,
    eval_strategy="steps",
    eval_steps=150,
    save_steps=150,
    save_total_limit=2,
    logging_steps=50,
    report_to=[],
    disable_tqdm=True,
)
Trainer(
    model=model,
    args=arguments,
    train_dataset=Texts(20_000),
    eval_dataset=Texts(200),
    callbacks=[Shift()],
).train()
shift.trained()
