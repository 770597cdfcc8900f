"""The paper's figures: plain data -> a figure. Drawn without pyplot; nothing global is touched."""

from flr.report.figures.ablation import ablation
from flr.report.figures.curves import accuracy, memorization
from flr.report.figures.embedding import Embedded, embedding, tsne
from flr.report.figures.matrices import partitions, transition
from flr.report.figures.overview import overview
from flr.report.figures.style import Curve, save
from flr.report.figures.values import bars, lines

__all__ = [
    "Curve",
    "Embedded",
    "ablation",
    "accuracy",
    "bars",
    "embedding",
    "lines",
    "memorization",
    "overview",
    "partitions",
    "save",
    "transition",
    "tsne",
]
