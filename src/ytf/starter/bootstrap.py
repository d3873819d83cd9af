"""How a backend starts a starter."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional


def command(python: str, parent: Optional[str] = None) -> List[str]:
    """The argv that runs the starter on an interpreter, whatever its environment holds.

    ``parent`` is the directory that holds the ``ytf`` package on the node; by
    default that of this very package. Isolated (``-I``) and without ``site``
    (``-S``): neither ``PYTHON*`` variables meant for the user's program nor
    packages on the node can reach the starter, and it starts in half the time.
    """
    if parent is None:
        here = os.path.abspath(__file__)
        parent = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    # The package ytf is stood in for by an empty one with its path: what the
    # public API imports is not for starters, and would double their start.
    # sys.path itself stays as it is, so that no module beside ytf (the
    # directory may be a site-packages) can hide one of the standard library.
    code = (
        "import sys; ytf = sys.modules['ytf'] = type(sys)('ytf'); ytf.__path__ = [%s]; "
        "from ytf.starter.__main__ import main; sys.exit(main())"
    )
    return [python, "-I", "-S", "-c", code % ascii(os.path.join(parent, "ytf"))]
