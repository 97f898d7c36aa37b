"""Command `nexusform conformance`: recorded decisions of real systems, answered again and scored."""
