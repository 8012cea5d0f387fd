"""The clusters between which a mirror stands, reached by the SDK: what a mirror needs of one."""
