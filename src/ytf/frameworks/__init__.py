"""Holds all that ytf knows of each framework: one file per framework.

The master asks for launch defaults and for hints after an exit; the starter
asks for the variables of a program. So this package is for both: standard
library only, Python 3.8, and cheap to import (``tests/starter/test_footprint``).

To add a framework, write one file here that defines ``PROFILE``, and add its
name to ``ytf.specs.job.Framework``.
"""
