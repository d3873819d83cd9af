from __future__ import annotations

from pathlib import Path

from ytf.backends.local.files import remove_tree


def test_removal_takes_read_only_directories_and_leaves_what_links_lead_to(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = tmp_path / "tree"
    (tree / "deep" / "er").mkdir(parents=True)
    (tree / "deep" / "er" / "file").touch()
    (tree / "link").symlink_to(outside)
    (tree / "dangling").symlink_to("nowhere")
    (tree / "deep").chmod(0o500)
    remove_tree(str(tree))
    assert not tree.exists()
    assert (outside / "kept").exists()
    remove_tree(str(tree))
