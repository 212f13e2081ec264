"""Scheduled work: the jobs, when they are due, and running them."""
