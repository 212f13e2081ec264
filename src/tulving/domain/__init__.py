"""The pure heart: claims, time and policy. Standard library only; no I/O, no clock."""
