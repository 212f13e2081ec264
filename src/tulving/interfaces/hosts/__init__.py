"""The programs that agents run in: where each keeps its settings, and what Tulving writes into them."""
