"""Finding and reading messages: conditions over bodies, decoded bodies, downloads, differences."""
