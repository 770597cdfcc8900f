"""Whether a site agrees to what the server asks: its policy, and its own count of replies.

It is asked before anything else is done with a message: nothing that the config names is imported
until the policy has agreed to it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from flr import config as configs
from flr.client.worker import ClientTask
from flr.config import policy as policies
from flr.config.entry import without_code
from flr.config.policy import Policy
from flr.core.arrays import Arrays, nbytes
from flr.core.errors import ConfigError
from flr.flower import ledger
from flr.flower.run_spec import RunSpec
from flr.flower.site_config import RefusalError, SiteConfig

log = logging.getLogger("flr")


def require(own: SiteConfig, run_spec: RunSpec, task: ClientTask | None = None) -> None:
    """Refuses a run, or a task of one, that the site's policy does not agree to."""
    policy = own_policy(own)
    with without_code():
        config = configs.parse(run_spec.tree)
        found = list(
            policies.objections(policy, config, policies.FIT if task is None else task.task)
        )
    most = policy.rounds
    if task is not None and most is not None and task.round >= most:
        found.append(f"its policy agrees to {most} rounds; this is round {task.round + 1}")
    if task is not None and policy.replies is not None:
        sent = ledger.replies(own.state_dir, own.site, run_spec.experiment)
        if sent >= policy.replies:
            found.append(f"its policy agrees to {policy.replies} replies; so many have left it")
    if task is not None and policy.per_hour is not None:
        since = datetime.now(UTC) - timedelta(hours=1)
        if ledger.replies(own.state_dir, own.site, since=since) >= policy.per_hour:
            found.append(
                f"its policy agrees to {policy.per_hour} replies in an hour; so many have left it"
            )
    if found:
        raise RefusalError("; ".join(found))


def require_size(own: SiteConfig, sent: Arrays) -> None:
    """Refuses a reply with more than the site's policy lets go at once."""
    most, size = own_policy(own).bytes, nbytes(sent)
    if most is not None and size > most:
        raise RefusalError(f"its policy agrees to replies of {most} bytes; this one has {size}")


def own_policy(own: SiteConfig) -> Policy:
    """The site's policy; one that cannot be read agrees to nothing."""
    path = own.state_dir / policies.NAME if own.policy is None else own.policy
    if own.policy is None and not path.exists():
        return Policy()
    try:
        return policies.load(path)
    except ConfigError as error:
        log.error("site %s: %s", own.site, error)
        raise RefusalError(
            "its policy cannot be read, so it agrees to nothing; its log says why"
        ) from error
