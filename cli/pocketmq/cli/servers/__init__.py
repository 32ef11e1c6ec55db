"""Commands that run or look after servers on this machine."""
