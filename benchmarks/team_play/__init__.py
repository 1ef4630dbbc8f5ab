"""What MA-POCA learns in games for teams, beside independent agents and an ablation: runs, a table and a picture."""
