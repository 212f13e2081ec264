"""How Tulving is reached: projections of the operation registry. A surface adds transport and rendering, no verbs."""
