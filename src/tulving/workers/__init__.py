"""Work that is done by itself: what there is to do, when it is due, and who does it."""
