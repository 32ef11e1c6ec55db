"""The release that this code is: what `pocketmq --version` prints, and servers tell of themselves."""

VERSION = "0.2.0"
