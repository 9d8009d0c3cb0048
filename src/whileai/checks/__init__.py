"""Whether a grader tells passes apart: spread, retest, bias, golden groups, certificates."""
