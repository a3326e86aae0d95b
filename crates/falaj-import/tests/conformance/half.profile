name half
loss-level 0.5
prob delay
0 5
1 5
