from tests.golden.manifests import FOLDER, KEPT, OVERLAYS, SOURCES, digest, kept, render

for old in KEPT.glob("*.yaml"):
    old.unlink()
for overlay in OVERLAYS:
    kept(overlay).write_text(render(FOLDER / "overlays" / overlay), encoding="utf-8")
SOURCES.write_text(digest() + "\n", encoding="utf-8")
