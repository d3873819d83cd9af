"""Functions as the programs of tasks: what travels to them, and what comes back (ADR 34)."""
