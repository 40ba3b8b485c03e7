"""Random problems against exact oracles until the time is over: ``make fuzz MINUTES=10``, or
``make fuzz SEED=...`` to replay.

Round k of every family draws from the seed ``SEED + k``, so the first round of a replay is the one
that failed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from pathlib import Path

for folder in ("geometry", "certificates", "tools"):
    sys.path.append(str(Path(__file__).parent / folder))

import conftest  # noqa: E402, F401  the profiles
import test_certificates  # noqa: E402
import test_exact  # noqa: E402
from hypothesis import given, seed, settings  # noqa: E402
from hypothesis.errors import InvalidArgument  # noqa: E402
from test_exact import CHECKED  # noqa: E402

# A family is a test of hypothesis without fixtures, what it draws from, and how many examples it
# has in a round. It adds to CHECKED what it has checked, under the name that the last line prints.
FAMILIES = {
    "cones": (
        test_exact.test_every_way_to_the_cone_has_exactly_the_rays_of_the_oracle,
        test_exact.CONES,
        200,
    ),
    "collapse": (
        test_exact.test_cone_collapse_has_exactly_the_rays_of_the_oracle,
        test_exact.COLLAPSES,
        5,
    ),
    "nnls": (test_exact.test_nnls_reaches_the_exact_optimum, test_exact.PROBLEMS, 200),
    "scaled": (
        test_exact.test_nnls_of_badly_scaled_rows_and_columns_is_optimal_or_says_that_it_is_not,
        test_exact.BADLY_SCALED,
        200,
    ),
    "certificates": (
        test_certificates.test_mutated_certificates_are_refused_or_harmless,
        test_certificates.MUTANTS,
        60,
    ),
}
ENOUGH = 20  # disagreements after which it ends


def play(name: str, round_seed: int) -> bool:
    """One round of a family; True when it found a disagreement, which is printed with the way to
    replay it."""
    test, strategies, examples = FAMILIES[name]
    try:
        seed(round_seed)(
            settings(max_examples=examples)(given(*strategies)(test.hypothesis.inner_test))
        )()
    except InvalidArgument:
        raise  # of the family itself
    except Exception as error:
        # whatever a problem brings about, the other problems are still tried
        print(
            f"\n{name}: {type(error).__name__}: {error}", *getattr(error, "__notes__", []), sep="\n"
        )
        print(f"replay: make fuzz SEED={round_seed} FAMILY={name} MINUTES=0\n", flush=True)
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="0 plays one round")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--family", choices=list(FAMILIES), action="append")
    options = parser.parse_args()
    first = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"fuzz: seed {first}", flush=True)
    warnings.filterwarnings("ignore", message="P is float32")
    settings.load_profile("fuzz")
    end, disagreements, k = time.monotonic() + 60 * options.minutes, 0, 0
    while k == 0 or (time.monotonic() < end and disagreements < ENOUGH):
        for name in options.family or FAMILIES:
            disagreements += play(name, first + k)
        k += 1
    checked = ", ".join(f"{count} {what}" for what, count in CHECKED.items())
    print(f"fuzz: {checked}, {disagreements} disagreements, seed {first}")
    return min(disagreements, 1)


if __name__ == "__main__":
    sys.exit(main())
