"""Who sits in the other seat: from a name to somebody who acts for rows in batches."""
