"""One page a file: reads the workbench, calls the analysis, draws figures."""
