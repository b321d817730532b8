"""The options of a training run, in groups: each is written once, for the estimators and for `nystream train`.

0 and "" mean that the value is chosen from the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nystream.config.option import option
from nystream.data.reader import Policy

Variant = Literal["co-fixed", "co-cont", "co-full"]
TaskName = Literal["auto", "classification", "detection"]
Horizon = str | int | range | tuple[int, ...]  # text as on the command line
Levels = str | tuple[float, ...]
Names = str | tuple[str, ...]  # separated by commas, or one by one


@dataclass(kw_only=True)
class TableOptions:
    """How a table is read, and what is forecast."""

    target: Names = option("", "Tables: column to forecast, or several separated by commas.", "NAMES")
    series: str = option(
        "",
        "Tables: column that names the series of each row, if the table has several, such as one per meter; one model "
        "then forecasts all of them.",
        "NAME",
        "none",
    )
    horizon: Horizon = option(
        1, "Tables: number of rows ahead to forecast; several at once as a range, 1..48, or a list, 1,24,48.", "ROWS"
    )
    quantiles: Levels = option(
        "",
        "Tables: levels of the quantiles to forecast, such as 0.1,0.5,0.9: a true value is below each with that "
        "probability.",
        "LEVELS",
        "none, but one number",
    )
    minimum: float = option(-math.inf, "Tables: least value that the targets can have, such as 0.", "NUMBER", "none")
    time: Names = option(
        "",
        "Tables: column with the time of each row, or two, with the date and the time of day: date,time; none if no "
        "column has it.",
        "NAMES",
        "auto-detected",
    )
    time_format: str = option(
        "", "Tables: format of the times, such as '%d.%m.%Y %H:%M', iso or seconds.", "FORMAT", "auto-detected"
    )
    timezone: str = option(
        "",
        "Tables: time zone of the times, such as Europe/Berlin, whose daylight saving time and calendar are then used.",
        "ZONE",
        "none",
    )
    skip_lines: int = option(0, "CSV files: number of lines before the header.", "N")
    skip_end: int = option(0, "CSV files: number of lines after the data, without empty ones.", "N")
    decimal: str = option("", "Tables: decimal separator of numbers.", ".|,", "auto-detected")
    columns: Names = option("", "Tables: input columns, in addition to the targets.", "NAMES", "all")
    categorical: Names = option(
        "", "Tables: numeric columns to treat as categories, as columns of text are.", "NAMES", "none"
    )
    known: Names = option(
        "",
        "Tables: columns whose value at the time of the forecast is known in advance, such as a weather forecast; live "
        "records have it as 'NAME ahead'.",
        "NAMES",
        "none",
    )
    units: Names = option("", "Tables: units of the targets, such as MW.", "NAMES", "none")
    missing: Policy = option(
        "fail", "Tables: how to treat empty fields: fail, fill with the column's last value, or skip the row."
    )
    gaps: Policy = option(
        "fail", "Tables: how to treat gaps in time: fail, fill with the last values, or skip the gap."
    )

    split: Names = option(
        "",
        "Tables: times at which validation and test data begin, such as 2023-01-01,2023-07-01, or the shares of "
        "training, validation and test data.",
        "TIMES",
        "0.8,0.1,0.1",
    )


@dataclass(kw_only=True)
class HeldOutOptions:
    """Data of their own for validation and testing."""

    valid: str = option("", "Another table or folder to validate on.", "PATH", "a part of the source")
    test: str = option("", "Another table or folder to score the model on.", "PATH", "a part of the source")


@dataclass(kw_only=True)
class ClassOptions:
    """How labelled files are read."""

    task: TaskName = option(
        "auto",
        "Feature files: one class per file (classification) or classes per frame (detection); auto decides by the "
        "labels.",
    )
    background: str = option(
        "", "Feature files: class of frames in which there is nothing to detect; '' for none.", "CLASS", "none"
    )
    group: str = option(
        "",
        "Folders: column of labels.csv, such as the subject of a recording, of which no value may be in two parts; "
        "folder keeps the files of a subfolder together.",
        "NAME",
        "none",
    )
    hop: int = option(
        0,
        "Feature files: number of frames per token; if several, it has their mean, standard deviation, minimum and "
        "maximum.",
        "FRAMES",
        "1, or more for narrow frames whose classes last long",
    )
    seconds: float = option(30.0, "Audio: maximum length of each file that is used.", "SECONDS")


@dataclass(kw_only=True)
class ModelOptions:
    """The model, and how it is trained."""

    linear: Literal["auto", "yes", "no"] = option(
        "auto",
        "Start from ridge regression (tables) or logistic regression (classes), which the Transformer then improves; "
        "auto does, except with --stack paper.",
    )
    window: int = option(
        0,
        "Window length n, in tokens.",
        "N",
        "48 to 96 rows that are whole days, weeks or years, otherwise 64; less for little data",
    )
    landmarks: int = option(
        0, "Number of landmarks m of low-rank attention, at most the window.", "M", "4, or less for a short window"
    )
    variant: Variant = option(
        "co-fixed", "Attention with fixed landmarks (co-fixed), continual ones (co-cont), or full attention (co-full)."
    )
    embed_dim: int = option(64, "Width of the model.", "D")
    num_heads: int = option(4, "Number of attention heads.", "H")
    layers: int = option(0, "Number of blocks.", "L", "2")
    stack: Literal["deep", "paper"] = option(
        "deep",
        "How several blocks stream: deep gives each block its own window; paper gives the same output as applying the "
        "model to the window.",
    )
    decay: Literal["auto", "yes", "no"] = option(
        "auto",
        "Let recent tokens weigh more, at learned rates; auto does, except for several blocks with --stack paper, "
        "which cannot.",
    )
    recipe: Literal["auto", "early", "paper"] = option(
        "auto",
        "How co-fixed is trained. early (auto): with full attention for a quarter of the epochs, then the landmarks of "
        "all blocks are fixed and trained from there. paper: with continual landmarks for 2/(L+2) of the epochs, then "
        "1/(L+2) to fine-tune each of the L blocks after its landmarks are fixed.",
    )
    teacher: str = option(
        "",
        "Also learn from the model of this run, such as one trained with --variant co-full on the same data; none "
        "turns this off.",
        "RUN",
        "none",
    )
    epochs: int = option(
        0,
        "Number of epochs of all training phases together; if there are fewer than phases, each has a shorter one.",
        "E",
        "18",
    )
    patience: int = option(
        -1,
        "Number of epochs without a better validation score after which a training phase stops; 0 for never.",
        "E",
        "6",
    )
    dropout: float = option(
        -1.0, "Dropout while training, from 0 to 1.", "SHARE", "0.1, or 0 for forecasts with --linear no"
    )
    weight_decay: float = option(-1.0, "Weight decay.", "NUMBER", "0.05 beside ridge regression, otherwise 0.01")
    lr: float = option(3e-3, "Peak learning rate.", "RATE")
    batch_size: int = option(8, "Number of stream pieces per update.", "B")
    seed: int = option(0, "Random seed of the weights, the split of files and the order of the data.", "SEED")
    device: str = option("auto", "Where to train: cpu, cuda, or auto: a GPU if there is one.", "cpu|cuda|auto")
