"""Arrays and strings in, plotly figures out."""
