"""JupyterLab in the container. Who may reach it is decided outside, by the port that the container is given."""

import os

c = get_config()  # noqa: F821  # type: ignore[name-defined]
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.port = 8888
c.ServerApp.port_retries = 0  # another port would not be the one that is published
c.ServerApp.open_browser = False
c.ServerApp.root_dir = os.environ["GRSTACK_NOTEBOOKS"]
c.ServerApp.quit_button = False
c.ServerApp.terminado_settings = {"shell_command": ["/bin/bash"]}
c.Application.log_level = "WARN"
c.PasswordIdentityProvider.allow_password_change = False  # the token is the only way in
# Nothing is asked from the internet.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"
