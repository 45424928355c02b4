"""``python -m pdssm``."""

import sys

from pdssm.cli import main

sys.exit(main())
