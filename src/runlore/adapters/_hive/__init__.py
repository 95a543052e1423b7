"""What understands the folders of hive's sessions."""
