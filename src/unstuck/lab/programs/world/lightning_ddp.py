"""Lightning: DDP with a validation, checkpoints and loader workers, as its Trainer does them."""

from datetime import timedelta
from typing import Any

import lightning
import shift
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
        )

    def _loss(self, batch: Any) -> torch.Tensor:
        return self.layers(batch[0]).square().mean()

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        shift.accelerator(0.1)
        return self._loss(batch)

    def validation_step(self, batch: Any, number: int) -> None:
        shift.accelerator(0.3)
        self.log("loss", self._loss(batch), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        if self.global_rank == 0:  # samples for people, made by one rank alone
            shift.compute(6)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


data = TensorDataset(torch.randn(4096, 32))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=shift.WORLD,
    strategy="ddp",
    max_epochs=-1,
    max_time=timedelta(seconds=shift.END - shift.time.monotonic()),
    limit_train_batches=150,
    limit_val_batches=8,
    callbacks=[ModelCheckpoint(shift.HOME, monitor="loss", save_top_k=2)],
    default_root_dir=shift.HOME,
    enable_progress_bar=False,
    enable_model_summary=False,
    logger=False,
)
loader = DataLoader(data, batch_size=8, num_workers=1, shuffle=True)
trainer.fit(Model(), loader, DataLoader(data, batch_size=8))
shift.trained()
