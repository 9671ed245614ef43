"""Rules: each takes the graph a step further. One rule a file; the executor lists them in the order in which they run."""
