#!/usr/bin/env python3
"""The Django entry, nothing else: the same door as the `tunnelmesh` script."""

import sys

from tunnelmesh.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
