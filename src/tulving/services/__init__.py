"""The verbs, one file per noun. The methods of these classes are the library."""
