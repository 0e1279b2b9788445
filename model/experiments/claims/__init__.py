"""Claims of the fifty statements: what each measures, and the rule of its verdict."""
