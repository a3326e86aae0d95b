"""The checks of `.ci/house`: one file each; `tree` and `rust` read the sources for them."""
