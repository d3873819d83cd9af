"""ytf as a scheduler of torchx, which loads it by its entry point ``yarn`` (ADR 36)."""
