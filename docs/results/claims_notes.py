"""What was found when a claim that fails, or is not decided, was looked into."""

from __future__ import annotations

NOTES = {
    "FedAvg's clients end at about 100 % memorized": (
        "Scale: the share is still rising after 50 rounds of a small network, and it is higher by "
        "half after 150 ([fig-longer](README.md#fig-longer)). Not the metric: it is tested against "
        "the recorded goldens, and on digits it shows 84 % ([demo](../tutorial.md))."
    ),
    "FLR keeps the memorized share below 10 %": (
        "The server's share touches 10 % and stays there. Guessing alone gives about 6 %: a model "
        "that is wrong on half of the samples meets one of nine wrong labels now and then. Clients "
        "have three times as much, because 250 images are soon learned by heart."
    ),
    "FLR's curve bends shortly after the warm-up": (
        "Shares are measured every five rounds and the warm-up has eight, so that a bend would lie "
        "between two measurements."
    ),
    "FLR is more accurate than FedAvg after the last round": (
        "The last round depends on which five sites it asks. After three times the rounds the "
        "difference is larger, see [below](#flrs-gain-comes-with-more-rounds-ours)."
    ),
    "The mixture memorizes less than either average alone": (
        "It memorizes less than the local average, but more than the global one, which memorizes "
        "least because it learns least: with alpha = 1 clients are held to a server model that has "
        "hardly learned yet."
    ),
    "FLR's gain comes with more rounds (ours)": (
        "Added after the runs of 50 rounds had shown little of FLR's gain. On held-out images "
        "lam = 1 is the best after 50 rounds, but it does not keep clients from memorizing after "
        "150; the paper's lam = 2 does. Why: [with lam = 1 a pseudo label, however certain, does "
        "not outweigh a wrong label](../explanation/memorization.md#how-large-flrs-lam-has-to-be). "
        "So the comparisons of methods, which are of 50 rounds with lam = 1, show FLR at its "
        "weakest where it matters most, late in training."
    ),
    "alpha >= 0.5 makes the term negative at the true class early in training": (
        "For more than half of the wrongly labelled samples, and for more of them the higher alpha "
        "is; not for all, as the paper's sentence may be read, because the global model after "
        "eight rounds is right on two fifths of the samples only."
    ),
}
