"""What a program's framework wants from us: variables, a port policy, and words when it fails."""
