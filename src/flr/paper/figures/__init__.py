"""The paper's figures: plain data -> a figure. Drawn without pyplot; nothing global is touched."""

from flr.paper.figures.ablation import ablation
from flr.paper.figures.embedding import Embedded, embedding, tsne
from flr.paper.figures.matrices import partitions, transition
from flr.paper.figures.overview import overview
from flr.paper.figures.values import bars, lines
from flr.report.curves import accuracy, memorization

__all__ = ["Embedded", "ablation", "accuracy", "bars", "embedding", "lines", "memorization"]
__all__ += ["overview", "partitions", "transition", "tsne"]
