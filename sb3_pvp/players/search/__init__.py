"""Monte-Carlo tree search with the policy and value of a fighter."""
