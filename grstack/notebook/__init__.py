"""`inv notebook` and `inv ssh`: JupyterLab and OpenSSH in an image of their own upon that of a target."""
