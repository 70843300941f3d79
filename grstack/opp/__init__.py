"""The vendor manager: which operator package serves which operator, why, and whether it is sound.

`scan` looks at one machine (this host, or inside an image) and needs the standard library and pyelftools only;
`serving` and `verify` read what it found; `show` draws it.
"""
