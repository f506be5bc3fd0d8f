"""The rules, one family a file. Each takes the analysis of a script and reports problems to it."""
