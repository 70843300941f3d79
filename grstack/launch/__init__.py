"""NPUs and GPUs for a container: which are here, whether they are free, and what a container needs to use them.

machine  what is looked at; seen  what it shows, by npu and gpu; drivers  the oldest that a toolkit takes
access   what a container is given; prepare  which devices, checked
request  what was typed; line, compose, kubernetes  the same run without `inv`
"""
