"""Delta Lake's own connector for Spark, by the newest PySpark that there is one for: none for 4.3 yet."""
