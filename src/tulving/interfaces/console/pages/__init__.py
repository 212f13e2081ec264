"""The pages, one module for each noun: `PAGES` lists what it serves."""
