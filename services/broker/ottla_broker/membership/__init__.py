"""This broker as a member of the cluster: its registration, its incarnation, when it may lead, and how it leaves."""
