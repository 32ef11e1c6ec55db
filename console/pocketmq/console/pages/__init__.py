"""The console in a browser: pages that the server renders, which need no script."""
