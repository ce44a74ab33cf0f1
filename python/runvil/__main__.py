"""`python -m runvil`."""

import sys

from runvil.cli.main import main

sys.exit(main())
