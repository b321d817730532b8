"""Training: data, tasks, the loop, many models at once, and the two phases of fixed landmarks."""

from nystream.train.config import TrainConfig
from nystream.train.data import StreamData, WindowData
from nystream.train.distill import Distillation, distilled
from nystream.train.logistic import Logistic, fit_logistic
from nystream.train.loop import FitResult, fit
from nystream.train.many import fit_many
from nystream.train.predict import evaluate, predict
from nystream.train.ridge import Ridge, fit_ridge
from nystream.train.tasks import Classification, Detection, Forecasting, Task
from nystream.train.trainable import Trainable
from nystream.train.transfer import Transfer, transfer_attention
from nystream.train.two_phase import fix_landmarks, train_two_phase

__all__ = [
    "Classification",
    "Detection",
    "Distillation",
    "FitResult",
    "Forecasting",
    "Logistic",
    "Ridge",
    "StreamData",
    "Task",
    "TrainConfig",
    "Trainable",
    "Transfer",
    "WindowData",
    "distilled",
    "evaluate",
    "fit",
    "fit_logistic",
    "fit_many",
    "fit_ridge",
    "fix_landmarks",
    "predict",
    "train_two_phase",
    "transfer_attention",
]
