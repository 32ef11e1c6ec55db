"""Jobs on topics: functions, and files that spark-submit takes."""
