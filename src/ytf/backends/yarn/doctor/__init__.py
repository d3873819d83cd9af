"""What ``ytf doctor`` checks of a cluster; ``checks`` has all of them in their order."""
