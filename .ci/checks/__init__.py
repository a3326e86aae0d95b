"""The checks of `.ci/house`: one file each, beside what they read (`tree`, `rust`)."""
