"""Which of a site's labels look wrong: computed at the site, from what it has, for its people."""

from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit, write
from flr.audit.scores import Scores, score

__all__ = ["Audit", "Evidence", "Scores", "audit", "score", "write"]
